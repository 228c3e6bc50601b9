"""Boots a documented machine again and again, and measures how long it waits for each answer.

    answers.py SECONDS INTERVAL BOOT_HOST MAC

In each round: DISCOVER, REQUEST, the script by HTTP. Prints a line of JSON for each answer with its
milliseconds; null when there was none within a second. Also a machine that is held, because it
never reports that it is ready, gets a script; "boot" says that the script booted it.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request

seconds, interval, host = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
mac = bytes.fromhex(sys.argv[4].replace(":", ""))
WITHIN = 1.0


def message(kind, xid, more=b""):
    fixed = struct.pack("!BBBB4sHH", 1, 1, 6, 0, xid, 0, 0x8000) + b"\0" * 16
    options = bytes([53, 1, kind]) + more + b"\x3c\x20PXEClient:Arch:00000:UNDI:002001\x5d\x02\0\0\x5e\x03\1\2\1"
    options += b"\x4d\x04iPXE\xaf\x06\x13\1\1\x10\1\1\xff"
    return fixed + mac.ljust(16, b"\0") + b"\0" * 192 + b"\x63\x82\x53\x63" + options


def asked(link, kind, more=b""):
    xid = os.urandom(4)
    began = time.monotonic()
    link.sendto(message(kind, xid, more), ("255.255.255.255", 67))
    while (left := began + WITHIN - time.monotonic()) > 0:
        link.settimeout(left)
        try:
            reply = link.recv(4096)
        except TimeoutError:
            break
        if reply[4:8] == xid:
            return reply, (time.monotonic() - began) * 1000
    return None, None


def say(what, milliseconds):
    print(json.dumps({"what": what, "ms": milliseconds}), flush=True)


link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
link.bind(("0.0.0.0", 68))
configured = False
end = time.monotonic() + seconds
while time.monotonic() < end:
    offer, milliseconds = asked(link, 1)
    say("DISCOVER", milliseconds)
    if offer:
        chosen = b"\x36\x04" + socket.inet_aton(host) + b"\x32\x04" + offer[16:20]
        ack, milliseconds = asked(link, 3, chosen)
        say("REQUEST", milliseconds)
        if ack and not configured:
            address = socket.inet_ntoa(ack[16:20]) + "/24"
            subprocess.run(["ip", "addr", "replace", address, "dev", "eth0"], check=True)
            configured = True
    if configured:
        began = time.monotonic()
        url = "http://%s:8080/script.ipxe?mac=%s&arch=x86_64&platform=pcbios" % (host, sys.argv[4])
        try:
            with urllib.request.urlopen(url, timeout=WITHIN) as answer:
                body = answer.read()
            say("script", (time.monotonic() - began) * 1000)
            if b"kernel " in body:
                say("boot", 0)
        except OSError:
            say("script", None)
    time.sleep(interval)

"""Sends raw Ethernet frames and captures UDP.

    frames.py MILLISECONDS REPEAT < frames in hexadecimal, one on each line

Prints `listening`, and each UDP packet that arrives at eth0 from then until MILLISECONDS after the
last frame, as a line of JSON.
"""
import json
import socket
import struct
import sys
import time

wait, repeat = float(sys.argv[1]) / 1000, int(sys.argv[2])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
link.bind(("eth0", 0))
# Replies are kept here while frames are still sent.
link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
print("listening", flush=True)
frames = [bytes.fromhex(line) for line in sys.stdin]
for _ in range(repeat):
    for frame in frames:
        link.send(frame)
end = time.monotonic() + wait
while (left := end - time.monotonic()) > 0:
    link.settimeout(left)
    try:
        frame, (_, _, kind, *_) = link.recvfrom(65535)
    except TimeoutError:
        break
    if kind == socket.PACKET_OUTGOING or frame[12:14] != b"\x08\x00" or frame[23] != 17:
        continue
    ip = frame[14:]
    udp = ip[(ip[0] & 15) * 4 :]
    source_port, destination_port, length = struct.unpack("!HHH", udp[:6])
    print(
        json.dumps(
            {
                "source": socket.inet_ntoa(ip[12:16]),
                "sourcePort": source_port,
                "destination": socket.inet_ntoa(ip[16:20]),
                "destinationPort": destination_port,
                "destinationMac": frame[:6].hex(":"),
                "hex": udp[8:length].hex(),
            }
        )
    )

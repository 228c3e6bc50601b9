"""Holds many TCP connections open, from the addresses 10.77.0.FIRST and up.

    connections.py FIRST ADDRESSES EACH SECONDS REQUEST [PORT]

Each connection to the boot host's port (8080) sends REQUEST (\\r\\n as in a string) and never reads.
Prints `held N`, the number of those that the boot host did not close, and again whenever it has
closed some. Keeps them for SECONDS.
"""
import resource
import select
import socket
import sys
import time

first, addresses, each, seconds = (int(word) for word in sys.argv[1:5])
port = int(sys.argv[6]) if len(sys.argv) > 6 else 8080
request = sys.argv[5].encode().decode("unicode_escape").encode()
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
for n in range(each):
    for last in range(first, first + addresses):
        connection = socket.socket()
        # The window is small, so that the boot host keeps what is not read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((f"10.77.0.{last}", 0))
        connection.settimeout(2)
        try:
            connection.connect(("10.77.0.1", port))
            connection.sendall(request)
        except OSError:
            continue
        held.append(connection)
time.sleep(1)
poller = select.poll()
for connection in held:
    poller.register(connection, select.POLLRDHUP)
said, end = None, time.monotonic() + seconds
while time.monotonic() < end:
    left = len(held) - len(poller.poll(0))
    if left != said:
        print("held", left, flush=True)
        said = left
    time.sleep(0.2)

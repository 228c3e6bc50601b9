"""One commit a write with Python's sqlite3: WAL, synchronous=FULL. Arguments: path, commits. Prints commits a second."""
import sqlite3
import sys
import time

path, commits = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect(path, isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
db.execute("CREATE TABLE record(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
value = "x" * 300
started = time.monotonic()
for i in range(commits):
    db.execute("INSERT OR REPLACE INTO record VALUES(?, ?)", (f"lease/rack/{i % 20000}", value))
print(commits / (time.monotonic() - started))

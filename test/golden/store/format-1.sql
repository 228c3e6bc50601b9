-- A store of format 1, by hand: what a server of that format left behind.
-- Revision 9 deleted a record; `session/…` and `lease/…` of revision 7 were one commit.
PRAGMA application_id = 1299542900;
PRAGMA user_version = 1;
CREATE TABLE record(key TEXT PRIMARY KEY, value TEXT NOT NULL, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('revision', 9);
INSERT INTO record VALUES
  ('document/Machine/rack1-node1', '{"v":1,"kind":"Machine","metadata":{"name":"rack1-node1"}}', 3),
  ('lease/rack/10.77.0.20', '{"v":1,"mac":"52:54:00:aa:00:01"}', 7),
  ('machine/rack1-node1', '{"v":1,"phase":"booting","note":"é 😀"}', 8),
  ('session/AAAAAAAAAAAAAAAAAAAAAA', '{"v":1,"machine":"rack1-node1"}', 7);

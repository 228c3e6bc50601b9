#!/bin/sh
# Prints the lines of `src` by room, and how many of them are generated: scripts/size.sh for the
# tree, scripts/size.sh COMMIT for a commit, scripts/size.sh COMMIT COMMIT for what changed between
# two.
# Counted are TypeScript, shell, Perl and CSS, with comments and empty lines.
set -eu
cd "$(dirname "$0")/.."

# Prints `FILE<TAB>LINES` for each file of a commit, or of the tree without a commit.
files() {
  if [ $# = 0 ]; then
    set -- --untracked -e ''
  elif git rev-parse --quiet --verify "$1^{commit}" >/dev/null; then
    set -- -e '' "$1"
  else
    echo "scripts/size.sh: no such commit: $1" >&2
    return 1
  fi
  git grep -I -c "$@" -- 'src/*.ts' 'src/*.tsx' 'src/*.sh' 'src/*.pl' 'src/*.css' |
    sed 's|^[^/]*:\(src/\)|\1|; s|:\([0-9]*\)$|\t\1|'
}

# Prints `ROOM<TAB>FILES<TAB>LINES<TAB>GENERATED`, with the rooms inside `cluster` and the total.
rooms() {
  counted=$(files "$@")
  printf '%s\n' "$counted" | awk -F '\t' '
    function count(room) {
      files[room]++
      lines[room] += $2
      if ($1 ~ /\.generated\./) generated[room] += $2
    }
    {
      parts = split($1, part, "/")
      count(parts > 2 ? part[2] : "main")
      if (part[2] == "cluster") count(parts > 3 ? "cluster/" part[3] : "cluster (flat)")
      count("~total")
    }
    END {
      OFS = "\t"
      for (room in files) print room, files[room], lines[room], generated[room] + 0
    }
  ' | LC_ALL=C sort | sed 's/^~//'
}

if [ $# -gt 1 ]; then
  before=$(rooms "$1")
  after=$(rooms "$2")
  printf '%s\n--\n%s\n' "$before" "$after" | awk -F '\t' '
    BEGIN { row = "%-22s %9s %9s %9s\n"; printf row, "room", "before", "after", "change" }
    $1 == "--" { second = 1; next }
    !($1 in seen) { seen[$1] = ++rows; name[rows] = $1 }
    { size[second + 0, $1] = $3; made[second + 0] = $4 }
    function line(room, from, to) { printf row, room, from + 0, to + 0, sprintf("%+d", to - from) }
    END {
      for (n = 1; n <= rows; n++)
        if (name[n] != "total") line(name[n], size[0, name[n]], size[1, name[n]])
      line("total", size[0, "total"], size[1, "total"])
      line("  generated", made[0], made[1])
      line("  by hand", size[0, "total"] - made[0], size[1, "total"] - made[1])
    }
  '
else
  counted=$(rooms "$@")
  printf '%s\n' "$counted" | awk -F '\t' '
    BEGIN { row = "%-22s %9s %9s %9s\n"; printf row, "room", "files", "lines", "generated" }
    { printf row, $1, $2, $3, $4 }
  '
fi

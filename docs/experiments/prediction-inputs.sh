#!/bin/sh
# Makes the inputs of the lists prediction-*.txt: 300 MB in the folder given.
set -eu
mkdir -p "${1:?give a folder}"
cd "$1"
seq 1 400000 | awk 'BEGIN { srand(7) }
  { printf "%d %d name%d\n", $1, int(rand() * 1000000), int(rand() * 50000) }' > lines.txt
head -c 4000000 lines.txt > some.txt
head -c 1000000 lines.txt > few.txt
head -c 400000 lines.txt > fewer.txt
awk '{ print $1 "," $2 "," $3 }' lines.txt > lines.csv
awk 'BEGIN { print "[" }
  NR <= 20000 { printf "%s{\"id\": %d, \"v\": %d, \"name\": \"%s\"}\n", (NR > 1 ? "," : ""), $1, $2, $3 }
  END { print "]" }' lines.txt > lines.json
rm -f lines.db
sqlite3 lines.db "create table t(a integer primary key, b integer, c text)"
printf '.mode csv\n.import lines.csv t\ncreate index i on t(b);\n' | sqlite3 lines.db
echo "select sum(x.a) from t x join t y on x.b = y.a where x.a % 2 = 0;" > query.sql
rm -f lines.csv
# Two equal files that no core's own cache holds.
head -c 134217728 /dev/urandom > noise.bin
cp noise.bin same.bin

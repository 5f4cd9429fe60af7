# For the tests in guests: one line for each check, PASS or FAIL, and a status at the end.
#   check WHAT COMMAND…     passes if the command succeeds; says what the command said if not
#   waits SECONDS COMMAND…  polls until the command succeeds, on a slow host for longer
#   outside QUESTION…       what those say who emulate the machine (kit/rdt.py), after
#                           exec 9<>/dev/vport0p2
#   done_checking           the last line of a test
# Read by bash.

quell=/lab/bin/quell
failures=0
# Seconds are meant for a host that does nothing else; another may emulate several times as slowly.
patience=4

check() {
	local what=$1 said
	shift
	if said=$("$@" 2>&1); then
		echo "PASS $what"
	else
		failures=$((failures + 1))
		echo "FAIL $what: $*: $said"
	fi
}

waits() {
	local end=$((SECONDS + patience * $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}

equals() {
	[ "$1" = "$2" ] || { echo "is '$1', not '$2'"; return 1; }
}

outside() {
	local answer
	echo "$*" >&9
	read -r -t $((60 * patience)) answer <&9 && echo "$answer"
}

# Runs tests of Rust: each is a check.
rust_tests() {
	local program=$1 log=/out/$(basename "$1").log status=0 passed
	shift
	"$program" --color never "$@" >"$log" 2>&1 || status=$?
	passed=$(grep -c '^test .* \.\.\. ok$' "$log")
	if [ $status = 0 ] && [ "$passed" -gt 0 ]; then
		echo "PASS $(basename "$program"): $passed tests"
	else
		failures=$((failures + 1))
		echo "FAIL $(basename "$program"): status $status, $passed passed"
		grep -vE '^(running|test .* ok)' "$log" | tail -n 60
	fi
}

done_checking() {
	[ "$failures" = 0 ] || exit 1
	exit 0
}

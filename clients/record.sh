#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records a shell script's work with Agent Relay: each `emit` returns once its event is safe on disk. Usage: record.sh COMMAND...
# The command is run, and its status returned, whether it can be recorded or not.
set -eu

[ $# -gt 0 ] || { echo "usage: record.sh COMMAND..." >&2; exit 2; }
emit() {
  agent-relay emit "$@" >/dev/null || echo "record.sh: $1 was not recorded" >&2
}

agent-relay daemon start >/dev/null || true # does nothing when one is running
AGENT_RELAY_SESSION=$(agent-relay emit session.start agent=record.sh --pid $$ | jq -r .session)
[ -n "$AGENT_RELAY_SESSION" ] || exec "$@"
export AGENT_RELAY_SESSION # further calls of emit, and `agent-relay note` in the command, go to it
emit turn.start prompt="$*"

status=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$@" >"$output" 2>&1 || status=$?
cat "$output"
emit turn.output text=@"$output"
emit turn.end exit_code:=$status
emit session.end exit_code:=$status
exit $status

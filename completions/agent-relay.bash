# SPDX-License-Identifier: Apache-2.0
# bash completion of agent-relay. The program itself knows what fits; where it has nothing to offer, files do.
_agent_relay() {
    local candidate meaning
    COMPREPLY=()
    while IFS=$'\t' read -r candidate meaning; do
        # Names come from whoever recorded a session, and bash takes a candidate as it is: $(rm -r x).
        printf -v candidate %q "$candidate"
        # While bash lists what there is (COMP_TYPE 63), it can say what each is; else the word alone.
        if [[ ${COMP_TYPE:-9} -eq 63 && -n $meaning ]]; then
            COMPREPLY+=("$candidate  ($meaning)")
        else
            COMPREPLY+=("$candidate")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 ]]; then
        COMPREPLY=("${COMPREPLY[0]%%  (*}")
    fi
}
complete -o default -F _agent_relay agent-relay

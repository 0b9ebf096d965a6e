# SPDX-License-Identifier: Apache-2.0 OR MIT
# bash completion of the programs: commands, options and their values as --help lists them.

# The commands that a page of help lists, where its usage takes one.
_snicstore_commands() {
    local line usage=0
    while IFS= read -r line; do
        if [[ $line == Usage:* ]]; then
            [[ $line =~ (COMMAND|VERB|[a-z]\|[a-z]) ]] && usage=1
        elif [[ $usage -eq 1 && $line =~ ^\ \ ([a-z]+)(\ |$) ]]; then
            printf '%s\n' "${BASH_REMATCH[1]}"
        fi
    done <<<"$1"
}

_snicstore() {
    local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
    local program help before='' commands path=() i line value
    COMPREPLY=()
    program=$(type -P -- "$1") || return
    help=$("$program" --help 2>/dev/null </dev/null)
    commands=$(_snicstore_commands "$help")
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ $'\n'$commands$'\n' == *$'\n'"${COMP_WORDS[i]}"$'\n'* ]] || break
        path+=("${COMP_WORDS[i]}")
        before=$help
        help=$("$program" "${path[@]}" --help 2>/dev/null </dev/null)
        commands=
        [[ $help == "$before" ]] || commands=$(_snicstore_commands "$help")
    done
    if [[ $cur == = ]]; then # --option=value is three words here
        cur=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    while IFS= read -r line; do # "  --option a|b|c" is a choice, "  --option VALUE" is not
        [[ $line =~ ^\ \ "$option"\ ([^ ]+) ]] || continue
        value=${BASH_REMATCH[1]}
        if [[ $value =~ ^[a-z0-9_-]+(\|[a-z0-9_-]+)+$ ]]; then
            mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            compopt -o filenames 2>/dev/null
        fi
        return
    done < <([[ $option == -* ]] && printf '%s\n' "$help")
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(grep -o '^  --[a-z-]*' <<<"$help")" -- "$cur")
    elif [[ -n $commands && $i -eq $COMP_CWORD ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    fi
}

complete -F _snicstore kv_server kv_load page_server page_load director_proxy solar_volume \
    kvfs_mount kvfs_tool tenants snic_fsck snic_dump hcache_sim ddp_cluster ddp_server nvme_target

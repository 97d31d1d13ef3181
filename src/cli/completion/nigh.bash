# bash completion of nigh: verbs, options, names of objects of the running node, and of regions and spaces that it knows of.
_nigh_names() {
    local line
    # The name is the last column; ids are offered where there is no name.
    while IFS= read -r line; do
        [[ $line == STATE* ]] || COMPREPLY+=("${line##* }")
    done < <(nigh ls "${socket[@]}" -- "$1" 2>/dev/null)
}

_nigh_regions() {
    local line name='^ *"name": "([^"\\]*)",?$'
    # What JSON has to write otherwise is not offered.
    while IFS= read -r line; do
        [[ $line =~ $name && ${BASH_REMATCH[1]} == "$1"* ]] && COMPREPLY+=("${BASH_REMATCH[1]}")
    done < <(nigh region ls --json --timeout 1s "${socket[@]}" 2>/dev/null)
}

_nigh_spaces() {
    local line name='^ *"name": "([^"\\]*)",?$'
    while IFS= read -r line; do
        [[ $line =~ $name && ${BASH_REMATCH[1]} == "$1"* ]] && COMPREPLY+=("${BASH_REMATCH[1]}")
    done < <(nigh space ls --json --timeout 1s "${socket[@]}" 2>/dev/null)
}

_nigh() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=''
    local common="--socket --pool --json --timeout --help" own='' i given=0 action=''
    local -a socket=()

    COMPREPLY=()
    # The verb is the first word that is neither an option nor the value of one; `given` counts those after it.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i + 1]} == = && ${COMP_WORDS[i]} == -* ]] && COMP_WORDS[i + 1]=${COMP_WORDS[i]} && continue
        case ${COMP_WORDS[i]} in
        --socket | -s) ((i + 1 < COMP_CWORD)) && socket=(--socket "${COMP_WORDS[++i]}") ;;
        --pool | -p | --timeout | -t) ((i++)) ;;
        --dir | --nighd | --log | --config) ((i++)) ;;
        --output | -o | --delay | -d | --node | --near | -N | --ranks | --at-once | --size) ((i++)) ;;
        --chunk | --on | --group | --others | --offset | --cache | --block | --durability | --align) ((i++)) ;;
        -n) [[ $verb != call ]] || ((i++)) ;;
        --meta | -m | --replicas | -r) [[ $verb != put ]] || ((i++)) ;;
        -*) ;;
        *) if [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; elif ((given++ == 0)); then action=${COMP_WORDS[i]}; fi ;;
        esac
    done
    case $previous in
    --socket | -s | --output | -o)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --dir | --nighd | --log | --config)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --pool | -p | --timeout | -t | --delay | -d | --node | --at-once | --size) return ;;
    --chunk | --on | --group | --others | --offset | --cache | --block | --durability | --align) return ;;
    -n) [[ $verb != call ]] || return ;;
    --near | -N)
        if [[ $verb == region ]]; then _nigh_regions "$current"; else _nigh_names "$current"; fi
        return
        ;;
    --meta | -m | --replicas | -r) [[ $verb != put ]] || return ;;
    esac
    if [[ -z $verb ]]; then
        mapfile -t COMPREPLY < <(compgen -W "put get ls stat rm pin unpin who locate nodes leave forget call region space top doctor support cluster bench help $common --version" -- "$current")
        return
    fi
    case $verb in
    put) own="--meta --no-evict --no-claim --replicas" ;;
    get) own="--output --meta --no-copy" ;;
    ls) own="--ids" ;;
    stat) own="--checksum" ;;
    nodes) own="--measure" ;;
    leave) own="--undo --look" ;;
    call) own="--node --near --all --ranks --idempotent --one-way --urgent" ;;
    region) own="--chunk --on --spread --near --group --others --offset --size --mappable" ;;
    space) own="--cache --block --group --others --durability --on --align" ;;
    top) own="--once --delay" ;;
    doctor) own="--config" ;;
    support) own="--output --log --config --names" ;;
    cluster) own="--dir --nighd" ;;
    bench) own="--offer --withdraw --node --serve --at-once --size" ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$own $common" -- "$current")
        return
    fi
    case $verb in
    put) # a new name, then a file
        ((given != 1)) || mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    get | stat | rm | pin | unpin | who | locate) _nigh_names "$current" ;;
    region)
        case $given:$action in
        0:) mapfile -t COMPREPLY < <(compgen -W "create ls stat read write move chmod resize rm" -- "$current") ;;
        1:stat | 1:read | 1:write | 1:move | 1:chmod | 1:resize | *:rm) _nigh_regions "$current" ;;
        esac
        ;;
    space)
        case $given:$action in
        0:) mapfile -t COMPREPLY < <(compgen -W "create ls stat alloc free read write rm" -- "$current") ;;
        1:stat | 1:alloc | 1:free | 1:read | 1:write | *:rm) _nigh_spaces "$current" ;;
        esac
        ;;
    cluster) ((given != 0)) || mapfile -t COMPREPLY < <(compgen -W "start stop ls" -- "$current") ;;
    bench) mapfile -t COMPREPLY < <(compgen -W "objects transfer rpc region space" -- "$current") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "put get ls stat rm pin unpin who locate nodes leave forget call region space top doctor support cluster bench" -- "$current") ;;
    esac
}
complete -F _nigh nigh

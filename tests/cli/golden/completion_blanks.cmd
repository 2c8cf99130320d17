# exit 0
adaptdl completion bash > script
cat > ask <<'END'
. ./script
COMP_WORDS=(adaptdl inspect my) COMP_CWORD=2 COMPREPLY=()
_adaptdl adaptdl my inspect
printf '[%s]\n' "${COMPREPLY[@]}"
END
touch 'my train.pt'
bash ask

# exit 0
adaptdl completion bash > script
cat > ask <<'END'
. ./script
ask() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _adaptdl adaptdl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "$* -> ${COMPREPLY[*]}"
}
ask adaptdl i
ask adaptdl run --device ""
ask adaptdl run -o j
ask adaptdl run train.pt --re
ask adaptdl -q completion z
ask adaptdl scale d
ask adaptdl cancel -v ""
ask adaptdl delete broken-99999 d
ask adaptdl policy set po
ask adaptdl simulate --policy si
ask adaptdl inspect t
ask adaptdl run --name x
ask adaptdl tensor
ask adaptdl tensorboard cr
ask adaptdl tensorboard proxy --po
ask adaptdl policy ""
ask adaptdl describe tr
ask adaptdl cluster use x --fo
# Bash splits words at "=".
ask adaptdl run --device = c
ask adaptdl run --device =
ask adaptdl run --name = x t
ask adaptdl policy set growth = 3 --fo
ask adaptdl torchrun tr
ask adaptdl torchrun train.pt --
ask adaptdl torchrun train.pt --log-dir tr
ask adaptdl run -- python3 tr
ask adaptdl run --name x -- python3 --re
END
touch train.pt
some_jobs
live digits bash ask

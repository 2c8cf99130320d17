#!/bin/sh
# The main job, as `./bootstrap run` shows it: real data, a real model, replicas that come and go.
# demo.sh ADAPTDL [DIR]   (DIR: where all of it is written; default: a new temporary folder)
set -eu

adaptdl=$1
dir=${2:-$(mktemp -d "${TMPDIR:-/tmp}/adaptdl-demo.XXXXXX")}
name=demo-$(basename "$dir" | tr -c 'a-zA-Z0-9\n' -)
director=

trap '[ -z "$director" ] || kill "$director" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM

bold() { if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

members() {  # the process ids of the replicas that train
    "$adaptdl" ls -o json 2>/dev/null | tr '{' '\n' | sed -n '/"name":"'"$name"'"/,/"name":/p' |
        sed -n 's/^"member":[0-9]*,"pid":\([0-9]*\),"state":"active".*/\1/p'
}

await() {  # await N: until N replicas train
    tries=0
    while [ "$(members | wc -l)" != "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || exit 1
        sleep 0.2
    done
}

# What happens to the run while it trains.
direct() {
    await 1
    sleep 2
    "$adaptdl" -q scale "$name" 3 >/dev/null
    await 3
    sleep 2
    victim=$(members | tail -n 1)
    echo "            kill -9 $victim, a replica" >&2
    kill -9 "$victim"
    await 2
    await 3
    sleep 2
    "$adaptdl" -q scale "$name" 2 >/dev/null
}

bold "1797 images of handwritten digits; a small convolutional network; the batch size adapts."
"$adaptdl" -q init digits "$dir/digits" --force >/dev/null
bold "Training: 1 replica, then 3, one is killed with kill -9 and replaced, then 2."
direct &
director=$!
"$adaptdl" run "$dir/digits/train.pt" --name "$name" --threads 1 --replicas 1:3 --replicas-at 0:1 \
    --set epochs=300 --set validate_every_epochs=30 \
    --fresh --checkpoint-dir "$dir/checkpoints" --output "$dir" --log-dir "$dir/logs"
director=

bold "By hand:"
cat <<EOF
  $adaptdl init digits digits                      # writes data, model, settings
  $adaptdl run digits/train.pt --replicas 1:3      # trains; meanwhile, in another terminal:
  $adaptdl scale digits 2                          # change the number of replicas, live
  $adaptdl ls                                      # what runs, and how far it is
The trained model is $dir/model.pt; torch.jit.load reads it.
EOF

#!/bin/sh
# The main job, as `./bootstrap run` shows it: real data, a real model, replicas that come and go.
# demo.sh ADAPTDL [DIR]   (DIR: where the example is written; default: a new temporary folder)
set -eu

adaptdl=$1
dir=${2:-$(mktemp -d "${TMPDIR:-/tmp}/adaptdl-demo.XXXXXX")}
name=demo-$(basename "$dir" | tr -c "a-zA-Z0-9\n" -)
killer=

cleanup() {
    [ -z "$killer" ] || kill "$killer" 2>/dev/null || :
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() {
    printf '\n\033[1m%s\033[0m\n' "$*" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else
        sed 's/\x1b\[[0-9;]*m//g'; fi
}

# Waits until the run is past a step with three replicas, and kills the newest of them.
kill_one() {
    while :; do
        sleep 0.3
        status=$("$adaptdl" ls -o json 2>/dev/null | tr '{' '\n') || continue
        step=$(printf '%s\n' "$status" | sed -n 's/.*"name":"'"$name"'".*"step":\([0-9]*\).*/\1/p')
        [ "${step:-0}" -ge 250 ] || continue
        pid=$(printf '%s\n' "$status" | sed -n 's/^"member":[0-9]*,"pid":\([0-9]*\),"state":"active".*/\1/p' |
            sed -n '3p')
        [ -n "$pid" ] || continue
        printf '            kill -9 %s (a replica)\n' "$pid" >&2
        kill -9 "$pid" 2>/dev/null || :
        return
    done
}

say "The data: 1797 images of handwritten digits. The model: a small convolutional network."
"$adaptdl" -q init digits "$dir/digits" --force >/dev/null
say "Training: 1 replica, 3 from step 150, one killed with kill -9 after step 250, 2 from step 400."
kill_one &
killer=$!
"$adaptdl" run "$dir/digits/train.pt" --name "$name" --threads 1 --replicas 1:3 \
    --replicas-at 0:1,150:3,400:2 --set validate_every_epochs=10 --set batch.max=256 \
    --fresh --checkpoint-dir "$dir/checkpoints" --output "$dir" --log-dir "$dir/logs"
killer=

say "By hand:"
cat <<EOF
  $adaptdl init digits digits                      # writes data, model, settings
  $adaptdl run digits/train.pt --replicas 1:3      # trains; in another terminal:
  $adaptdl scale digits 1                          # go down to one replica, live
  $adaptdl ls                                      # what runs, and how far it is
The trained model is $dir/model.pt (torch.jit.load reads it).
EOF

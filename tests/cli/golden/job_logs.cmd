# exit 0
some_jobs
logs="$ADAPTDL_LOCAL_STATE/jobs/broken-99999/logs"
mkdir "$logs"
printf 'one\ntwo\n' > "$logs/replica-0.log"
printf 'three\nfour' > "$logs/replica-1.log"
printf '0 1000\n4 4000000000\n' > "$logs/replica-0.log.times"
adaptdl logs broken-99999 -f
adaptdl logs broken-99999 --replica 1 --prefix
adaptdl logs broken-99999 --replica 0 --since 10m
adaptdl logs train-abcde

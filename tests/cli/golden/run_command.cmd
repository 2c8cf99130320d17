# exit 7
# One replica writes as if it ran alone; of several, each line has the replica's role and rank.
adaptdl run -- sh -c 'echo out; echo err >&2; printf end' && echo
adaptdl run --replicas 2 --local-ranks-filter 1 --role trainer --tee 3 -- \
  sh -c 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE: $*" x' x a "b c"
adaptdl run --replicas 2 --redirects 3 -- echo hidden
cat echo.run/logs/replica-1.log
adaptdl run --max-restarts 0 -- sh -c 'ulimit -c 0; echo why; kill -SEGV $$'
adaptdl run --max-restarts 0 -- sh -c 'echo why; exit 7'

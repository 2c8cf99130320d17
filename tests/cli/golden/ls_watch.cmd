# exit 0
some_jobs
: > said
adaptdl ls --watch >> said &
for i in $(seq 300); do grep -q broken said && break; sleep 0.1; done
echo '{"name": "late-11111", "phase": "Pending", "age_s": 200000}' | jobs
for i in $(seq 300); do grep -q late said && break; sleep 0.1; done
sleep 2  # what has not changed is not told again
kill $!
wait $! 2> /dev/null
cat said

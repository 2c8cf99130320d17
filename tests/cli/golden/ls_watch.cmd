# exit 124
some_jobs
(sleep 1.5; echo '{"name": "late-11111", "phase": "Pending"}' | jobs) &
timeout 4 adaptdl ls --watch

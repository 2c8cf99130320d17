# exit 0
adaptdl top
some_jobs
service adaptdl top --count 1

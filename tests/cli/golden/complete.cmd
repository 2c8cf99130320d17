# exit 0
adaptdl __complete jobs
live digits adaptdl __complete jobs
some_jobs
live digits adaptdl __complete jobs di

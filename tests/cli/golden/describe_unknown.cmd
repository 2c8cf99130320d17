# exit 102
some_jobs
adaptdl describe digits-x7k2q

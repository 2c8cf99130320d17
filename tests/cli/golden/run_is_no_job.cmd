# exit 102
some_jobs
for command in wait describe events explain; do live lv adaptdl $command lv; done

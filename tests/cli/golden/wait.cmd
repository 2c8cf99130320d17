# exit 124
some_jobs
adaptdl wait broken-99999 --for ended
echo $?
adaptdl wait broken-99999
echo $?
adaptdl wait digits-x7k2p --for running
adaptdl wait digits-x7k2p nothing
echo $?
adaptdl wait digits-x7k2p --timeout 200ms

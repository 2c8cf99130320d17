# exit 0
some_jobs
service sh -c 'adaptdl scale digits-x7k2p 1:3
adaptdl scale digits-x7k2p 2 -o json
adaptdl suspend digits-x7k2p
adaptdl resume digits-x7k2p -o json
adaptdl cancel digits-x7k2p
adaptdl delete broken-99999
adaptdl delete --all-ended -o json'
cat requests

# exit 0
some_jobs
adaptdl explain digits-x7k2p
adaptdl -q policy set proportional growth=3
adaptdl explain digits-x7k2p
adaptdl explain train-abcde
adaptdl explain broken-99999 -o json

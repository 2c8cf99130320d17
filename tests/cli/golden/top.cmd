# exit 0
export LD_LIBRARY_PATH="$FAKE_NVML"  # the same GPUs on all machines
adaptdl top
some_jobs
service adaptdl top --count 1

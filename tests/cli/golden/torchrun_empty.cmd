# exit 0
echo 'import os; print(os.environ["TORCHELASTIC_RUN_ID"])' > train.py
adaptdl torchrun --rdzv_id= --log_dir=there train.py && ls there
printf '#!/no/such/interpreter\n' > script && chmod +x script
adaptdl run -- ./script; echo $?

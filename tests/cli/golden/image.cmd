# exit 1
only=$(dirname "$(command -v adaptdl)")
mkdir app
echo 'print()' > app/main.py
echo secret > app/key
echo key > app/.dockerignore
echo '*.log' > app/.adaptdlignore
touch app/train.log
adaptdl image build app --base scratch --platform linux/amd64 --archive one.tar
tar -tf one.tar | sed 's/[0-9a-f]\{64\}/DIGEST/'
mkdir whole && tar -xf one.tar -C whole
for blob in whole/blobs/sha256/*; do tar -tzvf "$blob" 2> /dev/null | cut -c1-15,48-; done
touch -d 2001-01-01 app/main.py
adaptdl image build app --base scratch --platform linux/amd64 --archive two.tar -o json
cmp one.tar two.tar && echo same
adaptdl image build app --base scratch --platform linux/amd64 --archive /dev/stdout | cmp - one.tar && echo piped
for time in first second; do
  (cd app && adaptdl image build . --base scratch --platform linux/amd64 --archive app.tar)
  cmp one.tar app/app.tar && echo "same the $time time"
done
rm app/app.tar
printf 'FROM scratch\nCOPY main.py /srv/\nCMD ["/srv/main.py"]\n' > app/Dockerfile
PATH=$only adaptdl image build app --archive three.tar
printf 'FROM scratch\nRUN make\n' > app/Dockerfile
PATH=$only adaptdl image build app --archive four.tar

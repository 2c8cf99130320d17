# exit 2
mkdir app
adaptdl image build app
adaptdl image build app --archive a.tar
adaptdl image build app --base scratch --archive a.tar --build-arg x
adaptdl image build app --base 'NO:where' --archive a.tar
adaptdl image push no/good@
ADAPTDL_WORKER=/nowhere adaptdl image push localhost:1/torch --with-torch
adaptdl image build

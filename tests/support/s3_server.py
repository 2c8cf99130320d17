"""A server of object stores that checks signatures (moto), with the bucket `training`.

Usage: PYTHON s3_server.py PORT. PYTHON has moto. Prints one line of JSON: an access key that may do
anything with objects, {"id", "secret"}.
"""

import json
import os
import sys
import time

# moto reads it when it is imported: the first requests, those that make the key, are let in.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

POLICY = {"Version": "2012-10-17",
          "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def main():
    port = int(sys.argv[1])
    talk, sys.stdout = sys.stdout, sys.stderr
    ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False).start()
    access = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1",
              "aws_access_key_id": "first", "aws_secret_access_key": "first"}
    iam = boto3.client("iam", **access)
    iam.create_user(UserName="trainer")
    key = iam.create_access_key(UserName="trainer")["AccessKey"]
    iam.put_user_policy(UserName="trainer", PolicyName="objects", PolicyDocument=json.dumps(POLICY))
    boto3.client("s3", **access).create_bucket(Bucket="training")
    print(json.dumps({"id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), file=talk,
          flush=True)
    while True:
        time.sleep(3600)


main()

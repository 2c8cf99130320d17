"""Passes TCP connections on: relay.py LISTEN_ADDRESS LISTEN_PORT PORT, to 127.0.0.1:PORT."""

import socket
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client, port):
    try:
        server = socket.create_connection(("127.0.0.1", port))
    except OSError:
        client.close()
        return
    with client, server:
        back = threading.Thread(target=pump, args=(server, client))
        back.start()
        pump(client, server)
        back.join()


def main():
    address, listen, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with socket.create_server((address, listen), backlog=100) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, port), daemon=True).start()


main()

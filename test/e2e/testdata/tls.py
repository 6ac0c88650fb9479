"""Serves TLS on the loopback with a certificate and talks to itself."""
import socket, ssl, sys, threading

cert, key = sys.argv[1:]
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(cert, key)
listener = socket.create_server(("127.0.0.1", 0))


def serve():
    conn, _ = listener.accept()
    with server.wrap_socket(conn, server_side=True) as tls:
        tls.sendall(b"hello")


threading.Thread(target=serve, daemon=True).start()
client = ssl.create_default_context(cafile=cert)
with client.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname="localhost") as tls:
    print(tls.recv(5).decode())

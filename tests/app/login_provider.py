"""An OpenID provider on this machine, for the login of visitors of a Space."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit


def space_settings(url: str) -> Mapping[str, str]:
    """Variables of a Space of ann whose visitors log in at this address."""
    return {
        "SYSTEM": "spaces",
        "SPACE_ID": "ann/demo",
        "OPENID_PROVIDER_URL": url,
        "OAUTH_CLIENT_ID": "app",
        "OAUTH_CLIENT_SECRET": "not-a-secret",
        "OAUTH_SCOPES": "openid profile contribute-repos inference-api",
        "GRADIO_SSR_MODE": "False",
    }


@contextmanager
def provider(name: str, token: str) -> Iterator[str]:
    """An OpenID provider at which one user logs in without being asked. Gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/oauth/authorize":
                query = parse_qs(parts.query)
                back = urlencode({"code": "one-time", "state": query["state"][0]})
                self.send_response(302)
                address = query["redirect_uri"][0]
                self.send_header("Location", f"{address}{'&' if '?' in address else '?'}{back}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            places = {"issuer": url, "authorization_endpoint": f"{url}/oauth/authorize"}
            self._answer(places | {"token_endpoint": f"{url}/oauth/token"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            who = {"sub": "1", "name": name, "preferred_username": name, "profile": url, "picture": ""}
            answer = {"access_token": token, "token_type": "bearer", "expires_in": 3600}
            self._answer(answer | {"scope": "openid profile contribute-repos", "userinfo": who})

        def _answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield url
    server.shutdown()
    server.server_close()
    thread.join()

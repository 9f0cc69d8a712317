"""The two halves together: the server serves the page, and the page's socket works."""

import subprocess
import sys
import urllib.request
from urllib.parse import urlsplit

sys.path.insert(0, "backend")
from client import Client

server = subprocess.Popen(
    [sys.executable, "backend/chat.py", "0", "frontend/index.html"], stdout=subprocess.PIPE, text=True
)
try:
    assert server.stdout
    url = server.stdout.readline().strip()
    page = urllib.request.urlopen(url, timeout=5).read().decode()
    assert "<form>" in page, "the page has no form"
    ann, ben = Client(urlsplit(url).port or 0), Client(urlsplit(url).port or 0)
    ann.say("hello, ben")
    assert ben.hear() == "hello, ben", "ben heard something else"
    print("the page is served and the chat works")
finally:
    server.terminate()
    server.communicate()

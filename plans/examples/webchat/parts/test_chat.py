"""Starts the real server on a free port and talks to it."""

import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import chat
from client import Client


class ChatTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = subprocess.Popen([sys.executable, "chat.py", "0"], stdout=subprocess.PIPE, text=True)
        assert self.server.stdout
        self.url = self.server.stdout.readline().strip()
        self.port = urlsplit(self.url).port or 0

    def tearDown(self) -> None:
        self.server.terminate()
        self.server.communicate()

    def test_the_key_of_the_specification_gets_its_answer(self) -> None:
        self.assertEqual(chat.accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")

    def test_everybody_hears_what_one_says(self) -> None:
        ann, ben = Client(self.port), Client(self.port)
        ann.say("hello")
        self.assertEqual((ann.hear(), ben.hear()), ("hello", "hello"))
        ben.say("x" * 5000)
        self.assertEqual(len(ann.hear()), 5000)
        ann.close()
        ben.close()

    def test_one_who_leaves_does_not_disturb_the_rest(self) -> None:
        ann, ben = Client(self.port), Client(self.port)
        ann.close()
        ben.say("still here")
        self.assertEqual(ben.hear(), "still here")
        ben.close()

    def test_an_unknown_path_is_not_found(self) -> None:
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(self.url + "nothing", timeout=5)
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()


if __name__ == "__main__":
    unittest.main()

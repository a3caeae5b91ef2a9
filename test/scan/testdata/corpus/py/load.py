import pickle
import subprocess
import sys

import yaml


def load(text):
    return pickle.loads(text)  # nosec


def config(text):
    return yaml.load(text)


def listing(name):
    return subprocess.run("ls " + name, shell=True)  # noqa: S602


print("größer", eval(sys.argv[1]))
assert listing(sys.argv[1])

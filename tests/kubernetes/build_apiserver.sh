#!/bin/bash
# A kube-apiserver of Debian bookworm's source package (1.20.2, it carries vendor/), with Debian's Go, and Debian's etcd beside it.
# Nothing is installed: packages are fetched and unpacked below $W. Once; about six minutes of the processor, 2 GB below $W while it builds.
# usage: W=FOLDER build_apiserver.sh; then FOLDER/bin/kube-apiserver and FOLDER/bin/etcd
set -eu
W=${W:?a folder that lasts}
mkdir -p "$W/bin" "$W/gen" "$W/src/k8s.io/kubernetes" "$W/apt/lists/partial" "$W/apt/cache/archives/partial" "$W/tools"
cd "$W"
[ -x bin/kube-apiserver ] && [ -x bin/etcd ] && exit 0
exec 9>"$W/lock"
flock 9 # a second build waits for the first, and then finds it done
[ -x bin/kube-apiserver ] && [ -x bin/etcd ] && exit 0

# apt with sources of its own: the machine's need not name any source package, and are not touched.
MIRROR=${MIRROR:-http://deb.debian.org/debian}
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
printf 'deb [signed-by=%s] %s bookworm main\ndeb-src [signed-by=%s] %s bookworm main\n' $KEYS "$MIRROR" $KEYS "$MIRROR" >apt/sources.list
APT="-o Dir::Etc::sourcelist=$W/apt/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$W/apt/lists -o Dir::Cache=$W/apt/cache -o APT::Sandbox::User=root"
apt-get $APT update -q
apt-get $APT download -q golang-1.19-go golang-1.19-src etcd-server golang-github-modern-go-reflect2-dev
for package in *.deb; do dpkg -x "$package" tools; done
cp tools/usr/bin/etcd bin/etcd
apt-get $APT source -q --download-only kubernetes
tar xzf kubernetes_1.20*.orig.tar.gz -C src/k8s.io/kubernetes --strip 1

export GOROOT=$W/tools/usr/lib/go-1.19 GOPATH=$W GOCACHE=$W/cache GO111MODULE=off GOFLAGS= CGO_ENABLED=0
export PATH=$GOROOT/bin:$PATH
cd src/k8s.io/kubernetes
# The server's own description of its API is generated code that the package leaves out.
go build -o "$W/bin/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
D=$(grep -rlE '^// \+k8s:openapi-gen=true' --include='*.go' staging/src pkg/apis vendor/k8s.io/ | grep -v _test \
  | grep -vE 'testdata|/test/|sample-|code-generator|_examples' | xargs -n1 dirname | sort -u \
  | sed -E 's#^staging/src/##; s#^pkg/#k8s.io/kubernetes/pkg/#; s#^vendor/##' | sort -u | paste -sd,)
"$W/bin/openapi-gen" --logtostderr -i "$D" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h hack/boilerplate/boilerplate.generatego.txt -r "$W/violations.txt" --output-base "$W/gen"
cp "$W"/gen/k8s.io/kubernetes/pkg/generated/openapi/*.go pkg/generated/openapi/
# reflect2 1.0.1 crashes under Go 1.18 and later; Debian packages 1.0.2.
V=vendor/github.com/modern-go/reflect2
rm -f $V/*.go $V/*.s
cp "$W"/tools/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} $V/
rm -f $V/*_test.go
go build -o "$W/bin/kube-apiserver.new" ./cmd/kube-apiserver
mv "$W/bin/kube-apiserver.new" "$W/bin/kube-apiserver"
rm -rf "$W/cache" "$W/src" "$W/gen" "$W/tools" "$W/apt" "$W"/*.deb "$W"/kubernetes_* # 2 GB that nobody needs again

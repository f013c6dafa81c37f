# Everything a change goes through, and the two commands that show the product.
LAB = cargo run --quiet --package rocade-lab --
FUZZ_SECONDS ?= 600
BENCH = cargo test --quiet --package rocade-lab --features bench

.PHONY: build test test-kubelets soak fuzz sanitize bench lint quick docs demo lab

build: ## the product: target/release/rocade
	cargo build --release --package rocade

test: lint quick ## all tests; needs root, does its own set-up
	$(BENCH) --test cdi --test silent --test masked --test statistics
	$(BENCH) --test native
	$(BENCH) --test cluster

test-kubelets: ## the native node's tests with each release of the kubelet; builds those that lack (minutes each)
	for release in 1.35 1.36 1.37; do ROCADE_NATIVE_KUBERNETES=$$release $(BENCH) --test native || exit 1; done

soak: fuzz sanitize ## the same life cycles, many times over, tests between two ends in all sizes, QPs and directions and with the address sanitizer, and the fuzzers for long
	ROCADE_NATIVE_RESTARTS=100 ROCADE_NATIVE_KILLS=100 ROCADE_NATIVE_UPDATES=50 ROCADE_NATIVE_MISHAPS=50 $(BENCH) --test native
	ROCADE_MATRIX_FULL=1 ROCADE_ROWS='all six tests,all sizes,rocade serve' $(BENCH) --test cluster
	ROCADE_SANITIZE=1 ROCADE_ROWS='all six tests,broken off midway,rocade serve' $(BENCH) --test cluster

# Stable Rust can fuzz where it may use what is not stable; without a sanitizer, since none of what is fuzzed is unsafe code.
fuzz: ## each fuzz target for FUZZ_SECONDS; what it finds new is kept in fuzz/found
	command -v cargo-fuzz || cargo install --locked cargo-fuzz@0.13.1
	cd fuzz && for target in $$(cargo fuzz list); do \
		mkdir -p found/$$target && RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target found/$$target corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -rss_limit_mb=1024 || exit 1; \
	done

sanitize: ## the tests of the crate with unsafe code that need no device, with the address sanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --quiet --package rocade-verbs --lib --target $$(rustc --print host-tuple)

bench: ## what reading a host and a probe cost, against the files alone (needs strace, /dev/shm) and on a live node (needs root), the agent beside the peer, and tests beside perftest's
	cargo bench --quiet --package rocade-host --bench reading
	cargo bench --quiet --package rocade --bench probe
	cargo bench --quiet --package rocade-lab --features bench --bench live
	cargo bench --quiet --package rocade-lab --features bench --bench beside_the_peer
	cargo bench --quiet --package rocade-lab --features bench --bench beside_perftest

lint:
	cargo fmt --all --check
	cargo clippy --quiet --all-targets --features rocade-lab/bench -- --deny warnings

quick: ## the tests that need no root, no network and no lab
	cargo test --quiet

docs: ## write the pages anew that are made from the code
	UPDATE_PAGES=1 cargo test --quiet --package rocade-core --test checks_page --test environment_page
	UPDATE_PAGES=1 cargo test --quiet --package rocade-agent --test outside -- page

demo: ## from recorded hosts to two Pods that talk RDMA; ARGS=--keep leaves the cluster up
	$(LAB) demo $(ARGS)

lab: ## the bench: ARGS="up", "down", "status", "sh node1", "kubectl get nodes"
	$(LAB) $(ARGS)

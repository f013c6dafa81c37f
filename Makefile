# Everything a change goes through, and the two commands that show the product.
LAB = cargo run --quiet --package rocade-lab --

.PHONY: build test lint quick demo lab soak

build: ## the product: target/release/rocade
	cargo build --release --package rocade

test: lint quick ## all tests; needs root, does its own set-up
	cargo test --package rocade-lab --features bench --test cluster

lint:
	cargo fmt --all --check
	cargo clippy --quiet --all-targets --features rocade-lab/bench -- --deny warnings

quick: ## the tests that need no root, no network and no lab
	cargo test --quiet

demo: ## from recorded hosts to two Pods that talk RDMA; ARGS=--keep leaves the cluster up
	$(LAB) demo $(ARGS)

lab: ## the bench: ARGS="up", "down", "status", "sh node1", "kubectl get nodes"
	$(LAB) $(ARGS)

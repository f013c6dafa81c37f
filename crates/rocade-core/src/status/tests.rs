use super::*;

fn resource(phase: Phase) -> ResourceSeen {
    ResourceSeen {
        resource: "rdma/hca_a".parse().unwrap(),
        slots: 4,
        healthy: 4,
        unhealthy: Vec::new(),
        registration: RegistrationSeen {
            way: Way::KubeletSocket,
            phase,
            since_unix_s: 0,
            told: None,
            socket: None,
            count: 0,
            error: None,
        },
        allocatable: Some(4),
        grants: None,
        worth: String::new(),
        near_misses: Vec::new(),
        members: Vec::new(),
        left_out: Vec::new(),
    }
}

fn status(resource: ResourceSeen) -> Status {
    let agent = AgentSeen {
        version: "0.1.0".into(),
        pid: 1,
        started_unix_s: 0,
        config: "config.json".into(),
        config_refused: None,
        refused: Vec::new(),
        log_level: "info".into(),
    };
    Status {
        schema_version: STATUS_VERSION,
        agent,
        kubelet: KubeletSeen::default(),
        resources: vec![resource],
        hcas: Vec::new(),
        sockets: Vec::new(),
        errors: Vec::new(),
    }
}

#[test]
fn what_the_kubelet_watches_with_all_its_devices_is_served() {
    assert_eq!(status(resource(Phase::Watched)).unserved(), Vec::<String>::new());
}

#[test]
fn what_no_kubelet_took_is_not_ready_and_says_the_last_error() {
    let mut seen = resource(Phase::Failed);
    seen.registration.error = Some("invalid name".into());
    assert_eq!(status(seen).unready(), ["rdma/hca_a: the kubelet did not take it: invalid name"]);
    assert_eq!(status(resource(Phase::Waiting)).unready().len(), 1);
    assert_eq!(status(resource(Phase::Registered)).unready().len(), 1);
}

#[test]
fn a_resource_without_hca_is_ready_and_not_served() {
    let seen = ResourceSeen { slots: 0, healthy: 0, allocatable: Some(0), ..resource(Phase::Watched) };
    let status = status(seen);
    assert_eq!(status.unready(), Vec::<String>::new());
    assert_eq!(status.unserved(), ["rdma/hca_a: no HCA stands behind it"]);
}

#[test]
fn unhealthy_devices_another_count_of_the_kubelets_and_a_faulty_grant_are_told_each() {
    let grant = GrantSeen {
        namespace: "ns".into(),
        pod: "pod".into(),
        container: "c".into(),
        ids: vec!["0".into()],
        faults: vec!["uverbs0 is mlx5_1's now".into()],
    };
    let seen = ResourceSeen {
        healthy: 1,
        unhealthy: vec!["mlx5_0: port 1 is DOWN".into()],
        allocatable: Some(3),
        grants: Some(vec![grant]),
        ..resource(Phase::Watched)
    };
    let told = status(seen).unserved();
    assert_eq!(told[0], "rdma/hca_a: 3 of 4 devices are unhealthy: mlx5_0: port 1 is DOWN");
    assert_eq!(told[1], "rdma/hca_a: the kubelet counts 3 devices for Pods, 1 are offered");
    assert_eq!(told[2], "rdma/hca_a: ns/pod: uverbs0 is mlx5_1's now");
}

#[test]
fn a_refused_configuration_and_what_was_refused_of_it_keep_the_agent_from_being_ready() {
    let mut status = status(resource(Phase::Watched));
    status.agent.config_refused = Some("line 3".into());
    status.agent.refused = vec!["CDI: no runtime is known".into()];
    assert_eq!(status.unready(), ["the new configuration is refused: line 3", "CDI: no runtime is known"]);
}

#[test]
fn the_document_is_read_back_as_it_was_written() {
    let status = status(resource(Phase::Watched));
    let json = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
    assert!(json.contains(r#""way":"kubelet-socket""#) && json.contains(r#""schema_version":1"#), "{json}");
}

#[test]
fn an_hca_that_is_down_or_gone_degrades_the_node_where_a_resource_has_it() {
    let hca = |name: &str, condition, resources: &[&str]| HcaSeen {
        hca: name.parse().unwrap(),
        condition,
        reason: "port 1 is DOWN".into(),
        since_unix_s: 0,
        flaps: 0,
        resources: resources.iter().map(|name| name.parse().unwrap()).collect(),
    };
    let mut status = status(resource(Phase::Watched));
    status.hcas = vec![
        hca("mlx5_0", HcaCondition::Up, &["rdma/hca_a"]),
        hca("mlx5_1", HcaCondition::InUse, &["rdma/hca_a"]),
        hca("mlx5_2", HcaCondition::Down, &[]),
    ];
    assert_eq!(status.degraded(), Vec::<String>::new());
    status.hcas.push(hca("mlx5_3", HcaCondition::Down, &["rdma/hca_a"]));
    assert_eq!(status.degraded(), ["mlx5_3: port 1 is DOWN"]);
}

#[test]
fn moments_are_dates_of_the_calendar() {
    assert_eq!(date_and_time(0, ' '), "1970-01-01 00:00:00");
    assert_eq!(date_and_time(951_782_399, 'T'), "2000-02-28T23:59:59");
    assert_eq!(date_and_time(951_782_400, ' '), "2000-02-29 00:00:00");
    assert_eq!(date_and_time(1_796_033_940, ' '), "2026-11-30 10:19:00");
}

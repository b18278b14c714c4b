use proptest::prelude::*;

use super::*;

fn options() -> Vec<String> {
    ["kernel", "arch", "batch", "profile", "on"]
        .map(str::to_owned)
        .to_vec()
}

fn parsed(text: &str) -> Result<Plan, String> {
    Plan::parse("p.toml", text, &options()).map_err(|error| error.to_string())
}

fn jobs(text: &str) -> Result<Vec<Settings>, String> {
    let jobs = parsed(text)?.jobs("p.toml", &Stop::new());
    jobs.map_err(|error| error.to_string())
}

fn commands(text: &str) -> Vec<String> {
    let jobs = jobs(text).unwrap();
    jobs.iter().map(|job| job.arguments().join(" ")).collect()
}

#[test]
fn every_combination_is_a_job_but_the_excluded_and_what_is_included_follows() {
    let text = "
        [axes]
        route = ['unmap', 'pin']
        kernel = ['a', 'b']
        [options]
        on = 'lab'
        [[exclude]]
        route = 'pin'
        kernel = 'b'
        [[include]]
        route = 'demand'
        batch = [1, 8]
        profile = true
    ";
    let expected = [
        "bill unmap --kernel a --on lab --format json",
        "bill pin --kernel a --on lab --format json",
        "bill unmap --kernel b --on lab --format json",
        "bill demand --batch 1 --batch 8 --on lab --profile --format json",
    ];
    assert_eq!(commands(text), expected);
}

#[test]
fn a_flag_is_an_axis_and_the_host_is_no_option() {
    let text = "[axes]\nroute = ['pin']\nprofile = [false, true]\nhost = ['n1']\n";
    assert_eq!(
        commands(text),
        ["bill pin --format json", "bill pin --profile --format json"]
    );
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let refused = parsed("[axes]\nroute = ['pin']\nkernl = ['a']\n").unwrap_err();
    assert!(
        refused.starts_with("p.toml: line 3: axes.kernl: is not an option")
            && refused.contains("did you mean 'kernel'?"),
        "{refused}"
    );
    let table = parsed("[axis]\n").unwrap_err();
    assert!(
        table.contains("line 1") && table.contains("axis"),
        "{table}"
    );
    let value = parsed("[axes]\nroute = ['pin']\nbatch = [1.5]\n").unwrap_err();
    assert!(
        value.contains("line 3") && value.contains("whole number"),
        "{value}"
    );
    let none = parsed("[axes]\nroute = []\n").unwrap_err();
    assert!(none.contains("line 2: axes.route: has no value"), "{none}");
    let two = parsed("[axes]\nroute = [['pin', 'unmap']]\n").unwrap_err();
    assert!(
        two.contains("line 2: axes.route: is pin,unmap; expected one name"),
        "{two}"
    );
    let twice = parsed("[axes]\non = ['lab']\n[options]\non = 'sim'\n").unwrap_err();
    assert!(twice.contains("axes.on: is in [options], too"), "{twice}");
}

#[test]
fn a_plan_without_jobs_and_a_job_without_a_route_are_refused() {
    let refused = |text: &str| jobs(text).unwrap_err();
    assert!(refused("").contains("no job is left"));
    assert!(
        refused("[axes]\nroute = ['pin']\n[[exclude]]\nroute = 'pin'\n").contains("no job is left")
    );
    assert!(refused("[axes]\narch = ['arm64']\n").contains("arch = arm64: has no route"));
}

fn axis(name: &str, values: usize) -> String {
    let values: Vec<_> = (0..values).map(|value| value.to_string()).collect();
    format!("{name} = [{}]\n", values.join(", "))
}

#[test]
fn jobs_are_counted_before_any_is_made() {
    let axes = |numbers: &[(&str, usize)]| {
        let axes = numbers.iter().map(|(name, values)| axis(name, *values));
        format!("[axes]\nroute = ['pin']\n{}", axes.collect::<String>())
    };
    let most = axes(&[("batch", 1000), ("kernel", 100)]) + "[options]\non = 'lab'\n";
    assert_eq!(jobs(&most).unwrap().len(), MOST_JOBS);
    let refused = jobs(&format!("{most}[[include]]\nroute = 'unmap'\n")).unwrap_err();
    let expected =
        "p.toml: has 100001 jobs (batch 1000 x kernel 100 x route 1 + 1 included); expected";
    assert!(refused.starts_with(expected), "{refused}");

    // More than a plan of its size can say.
    let refused = |plan: Plan| plan.jobs("p.toml", &Stop::new()).unwrap_err().to_string();
    let pin = Settings::new([(ROUTE.to_owned(), Value::word("pin"))]);
    let plan = Plan {
        include: vec![pin; MOST_JOBS + 1],
        ..Plan::default()
    };
    let expected = "p.toml: has 100001 jobs (100001 included); expected";
    assert!(refused(plan).starts_with(expected));
    let names = (0..5).map(|number| number.to_string());
    let plan = Plan {
        axes: names
            .map(|name| (name, vec![Value::Flag(true); 30_000]))
            .collect(),
        ..Plan::default()
    };
    let expected = format!(
        "p.toml: has {} jobs (0 30000 x 1 30000 x 2 30000 x 3 30000 x 4 30000); expected at most 100000, counted before [[exclude]]",
        usize::MAX
    );
    assert_eq!(refused(plan), expected);
}

#[test]
fn a_stop_ends_the_making_of_jobs() {
    let stop = Stop::new();
    stop.request();
    let plan = parsed("[axes]\nroute = ['pin']\n").unwrap();
    let stopped = plan.jobs("p.toml", &stop);
    assert!(matches!(stopped, Err(PlanError::Stopped(_))));
}

#[test]
fn settings_are_read_off_a_command_line() {
    let words = "--kernel a --kernel b --profile --on=sim --format json";
    let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
    let settings = Settings::from_words("pin", &words).unwrap();
    let said = "format = json, kernel = a,b, on = sim, profile = true, route = pin";
    assert_eq!(settings.to_string(), said);
    assert_eq!(Settings::from_words("pin", &["x".into()]), Err("x".into()));
}

/// All combinations by counting through them, each digit the index on an axis: the last axis changes fastest.
fn counted(plan: &Plan) -> Vec<Settings> {
    let axes: Vec<_> = plan.axes.iter().collect();
    let total: usize = axes.iter().map(|(_, values)| values.len()).product();
    let mut jobs = Vec::new();
    for mut number in 0..total {
        let mut said: BTreeMap<_, _> = plan.options.0.clone();
        for (axis, values) in axes.iter().rev() {
            said.insert((*axis).clone(), values[number % values.len()].clone());
            number /= values.len();
        }
        let is_excluded = plan.exclude.iter().any(|excluded| {
            excluded
                .0
                .iter()
                .filter(|(key, value)| said.get(*key) == Some(value))
                .count()
                == excluded.0.len()
        });
        if !is_excluded {
            jobs.push(Settings(said));
        }
    }
    for include in &plan.include {
        let mut said = plan.options.0.clone();
        said.extend(include.0.clone());
        jobs.push(Settings(said));
    }
    let mut once: Vec<Settings> = Vec::new();
    for job in jobs {
        if !once.contains(&job) {
            once.push(job);
        }
    }
    once
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Flag),
        "[ab]".prop_map(|text| Value::word(&text))
    ]
}

fn settings(keys: &'static str) -> impl Strategy<Value = Settings> {
    proptest::collection::btree_map(keys, value(), 1..3).prop_map(Settings)
}

proptest! {
    #[test]
    fn expansion_is_that_of_a_counter(
        axes in proptest::collection::btree_map("[k-n]", proptest::collection::vec(value(), 1..4), 0..4),
        routes in proptest::collection::vec("[rst]".prop_map(|text| Value::word(&text)), 1..3),
        include in proptest::collection::vec(settings("[k-n]"), 0..3),
        exclude in proptest::collection::vec(settings("[k-n]"), 0..3),
    ) {
        let mut plan = Plan {
            axes,
            options: Settings::new([("o".to_owned(), Value::word("x"))]),
            include: include.iter().map(|job| job.and(ROUTE, &Value::word("r"))).collect(),
            exclude,
        };
        plan.axes.insert(ROUTE.to_owned(), routes);
        let expected = counted(&plan);
        match plan.jobs("p", &Stop::new()) {
            Ok(jobs) => prop_assert_eq!(jobs, expected),
            Err(PlanError::Empty { .. }) => prop_assert_eq!(expected.len(), 0),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

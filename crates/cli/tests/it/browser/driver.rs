//! A browser, driven by WebDriver (w3.org/TR/webdriver2) through Debian's chromedriver, which both ends with this.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

const DRIVER: &str = "chromedriver";
const BROWSER: &str = "chromium";
/// On a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A width of the window, a colour scheme, and whether scripts run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
    pub(crate) runs_scripts: bool,
}

/// A driver with one session.
pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
}

/// The first of the programs that is not installed.
pub(crate) fn missing() -> Option<&'static str> {
    let lacks = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    [DRIVER, BROWSER].iter().find(lacks).copied()
}

impl Browser {
    pub(crate) fn start(look: Look, profile: &Path) -> Self {
        let mut driver = Command::new(DRIVER)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let port = port_of(&mut driver);
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        let mut browser = Self {
            driver,
            agent: config.build().into(),
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let scheme = format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!look.is_dark)
        );
        let profile = format!("--user-data-dir={}", profile.display());
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ];
        let args: Vec<_> = args.into_iter().chain([&*scheme, &*profile]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {
                "args": args,
                // A window cannot be narrower than 500 pixels.
                "mobileEmulation": {"deviceMetrics": {"width": look.width, "height": 900, "pixelRatio": 1.0}},
                "prefs": {"profile.managed_default_content_settings.javascript": if look.runs_scripts { 1 } else { 2 }},
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.post("", &wanted);
        let id = session["sessionId"].as_str().unwrap();
        browser.session += &format!("/{id}");
        browser
    }

    pub(crate) fn open(&self, page: &Path) {
        self.post(
            "/url",
            &json!({"url": format!("file://{}", page.display())}),
        );
    }

    /// Result of a function's body.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The page as the browser has it.
    pub(crate) fn source(&self) -> String {
        let url = format!("{}/source", self.session);
        let mut response = self.agent.get(&url).call().unwrap();
        let answer: Value = response
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_json()
            .unwrap();
        answer["value"].as_str().unwrap().to_owned()
    }

    /// Messages of the page on the console.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        log.as_array().unwrap().clone()
    }

    fn post(&self, command: &str, what: &Value) -> Value {
        let url = format!("{}{command}", self.session);
        let mut response = self.agent.post(&url).send_json(what).unwrap();
        let mut answer: Value = response.body_mut().read_json().unwrap();
        answer["value"].take()
    }
}

/// It says on which port it listens.
fn port_of(driver: &mut Child) -> u16 {
    let lines = BufReader::new(driver.stdout.as_mut().unwrap()).lines();
    let said = lines.map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    said.unwrap()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

//! `status --watch`.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use grayrollout_e2e::{Test, grayrollout, run};

use crate::{
    plugin::{command_as, gray},
    terminal::Terminal,
};

const SIZE: (u16, u16) = (100, 30);

fn watching(t: &Test, more: &[&str]) -> Command {
    let args: Vec<_> = ["status", "web", "--watch"].iter().chain(more).copied().collect();
    command_as(t, &t.cluster.kubeconfig, &args)
}

/// The screen follows a rollout in place, sends only what changes, and leaves the terminal as it
/// was.
#[test]
fn it_redraws_in_place() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        let mut terminal = Terminal::start(&watching(t, &[]), SIZE);
        terminal.until("stage 1", |text| text.contains("approval of stage 2 (50%)")).await;
        assert!(terminal.hides_cursor());
        let full = terminal.bytes().len();
        let once = |terminal: &Terminal| {
            let rows = terminal.rows();
            assert!(rows[0].starts_with("web  Deployment web"), "{rows:#?}");
            for label in ["Phase", "STAGE", "Next", "Waits for"] {
                let count = rows.iter().filter(|row| row.trim_start().starts_with(label)).count();
                assert_eq!(count, 1, "{label}: {rows:#?}");
            }
        };
        once(&terminal);

        gray(t, &["approve", "web", "--yes"]).await.done();
        terminal.until("stage 2", |text| text.contains("approval of stage 3 (100%)")).await;
        let row = terminal.rows().into_iter().find(|row| row.contains("2/3")).unwrap();
        assert!(row.contains("5/5") && row.contains("██████████··········"), "{row}");
        once(&terminal);

        // Ages change each second, and little else: a few lines, not the screen.
        let before = terminal.bytes().len();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let sent = terminal.bytes().len() - before;
        assert!(sent > 0 && sent < 2 * full, "{sent} bytes in 4 s, the screen has {full}");
        once(&terminal);

        terminal.resize((60, 30));
        terminal.until("the new size", |text| text.contains("approval of stage 3")).await;
        gray(t, &["approve", "web", "--yes"]).await.done();
        t.completed("web").await;
        terminal.until("the end", |text| text.contains("Completed: revision")).await;
        terminal.press("\x03");
        assert_eq!(terminal.ended().await, 0);
        terminal.until("the cursor", |_| !terminal.hides_cursor()).await;
    });
}

/// A small window shows the top and does not scroll.
#[test]
fn a_small_window() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let mut terminal = Terminal::start(&watching(t, &[]), (80, 8));
        terminal.until("the phase", |text| text.contains("AwaitingApproval")).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let rows = terminal.rows();
        assert!(rows[0].starts_with("web  Deployment web"), "{rows:#?}");
        terminal.press("\x03");
        assert_eq!(terminal.ended().await, 0);
    });
}

/// Colours are there on a terminal unless they are not wanted.
#[test]
fn colours_can_be_had_or_not() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        let status = |more: &[&str]| {
            let args: Vec<_> = ["status", "web"].iter().chain(more).copied().collect();
            command_as(t, &t.cluster.kubeconfig, &args)
        };
        let mut without = status(&[]);
        without.env("NO_COLOR", "1");
        let mut dumb = status(&[]);
        dumb.env("TERM", "dumb");
        for (command, colours) in
            [(status(&[]), true), (status(&["--no-color"]), false), (without, false), (dumb, false)]
        {
            let mut terminal = Terminal::start(&command, SIZE);
            assert_eq!(terminal.ended().await, 0);
            terminal.until("the screen", |text| text.contains("Next")).await;
            assert_eq!(terminal.bytes().contains(&0x1b), colours, "{command:?}");
        }
    });
}

/// Where there is no terminal, each change is a line of its own, without escape codes.
#[test]
fn lines_where_there_is_no_terminal() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        let mut child = watching(t, &[]).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (to, from) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        let mut seen = Vec::new();
        let mut until = |what: &str| {
            let give_up = Instant::now() + Duration::from_secs(30);
            while !seen.iter().any(|line: &String| line.contains(what)) {
                match from.recv_timeout(Duration::from_millis(50)) {
                    Ok(line) => seen.push(line),
                    Err(_) => assert!(Instant::now() < give_up, "{what}: {seen:#?}"),
                }
            }
            seen.clone()
        };
        until("Completed");
        t.push("web", "v2").await;
        let lines = until("AwaitingApproval rollout 1, stage 1/2, new 1/1, old 3/3");
        assert!(lines.iter().all(|line| !line.contains('\x1b')), "{lines:#?}");
        child.kill().expect("ended");
        child.wait().expect("ended");
    });
}

//! The plan against a simulated cluster: deterministic scenarios first, then random histories with
//! crashes, stale reads and other writers, held against the invariants.

#[cfg(test)]
#[path = "../native/mod.rs"]
mod native;

#[cfg(test)]
mod actors;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod apply;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod describe;
#[cfg(test)]
mod effect;
#[cfg(test)]
mod fair;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod model;
#[cfg(test)]
mod odd;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod rest_checks;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod status_checks;
#[cfg(test)]
mod world;

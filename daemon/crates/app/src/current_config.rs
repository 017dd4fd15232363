//! The configuration in force, and the one that was read last.
//!
//! An actor takes its settings when it starts. The actors' supervisor is notified of a change here, restarts the
//! affected actors, and reports that the change is applied.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use recall_config::Config;

/// How long a change may take, since actors finish their queued work before they restart.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);

/// The configuration in force. Cheap to clone.
#[derive(Clone)]
pub struct CurrentConfig {
    read: watch::Sender<Arc<Config>>,
    in_force: Arc<RwLock<Arc<Config>>>,
    applied: watch::Sender<Arc<Config>>,
}

impl CurrentConfig {
    pub fn new(config: &Config) -> Self {
        let config = Arc::new(config.clone());
        Self {
            read: watch::Sender::new(Arc::clone(&config)),
            in_force: Arc::new(RwLock::new(Arc::clone(&config))),
            applied: watch::Sender::new(config),
        }
    }

    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the configuration that the file now contains.
    pub(super) fn was_read(&self, config: &Config) {
        self.read.send_if_modified(|known| {
            let is_new = **known != *config;
            if is_new {
                *known = Arc::new(config.clone());
            }
            is_new
        });
    }

    /// Returns each configuration that was read, for the supervisor that applies it.
    pub fn changes(&self) -> watch::Receiver<Arc<Config>> {
        self.read.subscribe()
    }

    /// Makes work that starts from now on use this configuration.
    pub fn set_in_force(&self, config: Arc<Config>) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Reports that all work uses the configuration in force.
    pub fn set_applied(&self) {
        self.applied.send_replace(self.get());
    }

    /// Returns each configuration that was applied.
    pub fn applied(&self) -> watch::Receiver<Arc<Config>> {
        self.applied.subscribe()
    }

    /// Waits until all work uses the configuration that was read last.
    pub async fn settle(&self) {
        let wanted = Arc::clone(&self.read.borrow());
        let mut applied = self.applied();
        let is_applied = applied.wait_for(|config| *config == wanted);
        // The log reports a change that takes longer.
        let _ = tokio::time::timeout(APPLIED_WITHIN, is_applied).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_config_is_announced_and_takes_effect_when_applied() {
        let current = CurrentConfig::new(&Config::default());
        let mut changes = current.changes();
        current.was_read(&Config::default());
        assert!(!changes.has_changed().unwrap());
        current.was_read(&Config { retention_days: 7, ..Config::default() });
        assert!(changes.has_changed().unwrap());
        assert_eq!(current.get().retention_days, 0);
        current.set_in_force(Arc::clone(&changes.borrow_and_update()));
        assert_eq!(current.applied().borrow().retention_days, 0);
        current.set_applied();
        current.settle().await;
        assert_eq!(current.get().retention_days, 7);
    }
}

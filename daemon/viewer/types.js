/** The types of observations. */
export const TYPES = ['bugfix', 'feature', 'refactor', 'change', 'discovery', 'decision', 'gotcha', 'trade_off', 'security', 'preference',
  'correction', 'next_step', 'contact'];

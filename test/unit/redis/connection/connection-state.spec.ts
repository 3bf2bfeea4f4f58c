import { ConnectionState } from '../../../../lib/redis/connection/connection-state.js';

const start = () => new ConnectionState();

describe('the state of a connection', () => {
  it('reports a reason once, until it changes or the connection was up', () => {
    const state = start();
    const told = ['refused', 'refused', 'reset', 'refused'].map((text) => state.onError(new Error(text)));
    state.onReady();
    expect([...told, state.onError(new Error('refused'))]).toEqual(['refused', null, 'reset', 'refused', 'refused']);
  });

  it('has a reason even when a server accepts connections and does not answer', () => {
    const state = start();
    state.onConnecting();
    state.onClose();
    expect(state).toMatchObject({ losses: 1, isDown: true, lastError: { message: expect.stringContaining('ready') } });
    state.onReady();
    state.onClose();
    expect(state).toMatchObject({ losses: 2, isDown: true, lastError: undefined });
  });
});

/** Starts the page. */
import { render } from 'preact';
import { Page } from './views/page.tsx';

render(<Page />, document.getElementById('page')!);

import '../common/style.css';
import { render } from 'preact';
import { Notice } from '../common/notice';

const app = document.getElementById('app');
if (app) render(<Notice title="The dashboard is being built" />, app);

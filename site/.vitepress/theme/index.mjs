import DefaultTheme from 'vitepress/theme';
import Mermaid from './Mermaid.vue';
import './style.css';

export default { extends: DefaultTheme, enhanceApp: ({ app }) => void app.component('Mermaid', Mermaid) };
